"""Serving: a simulation of requests, iteration by iteration, on replicas behind a router."""

"""Serving: what requests wait for, iteration by iteration, on replicas behind a router."""

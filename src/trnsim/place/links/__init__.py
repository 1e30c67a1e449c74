"""Links: the time of an exchange between ranks of a plan, up to several buildings."""

from trnsim.place.links.exchange import ExchangeTime, Spread, exchange
from trnsim.place.links.site import CAMPUS, Site

__all__ = ["CAMPUS", "ExchangeTime", "Site", "Spread", "exchange"]

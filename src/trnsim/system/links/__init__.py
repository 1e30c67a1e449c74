"""Links: how long an exchange between ranks of a plan takes, up to several buildings."""

from trnsim.system.links.exchange import ExchangeTime, Spread, alone, exchange
from trnsim.system.links.site import CAMPUS, Site

__all__ = ["CAMPUS", "ExchangeTime", "Site", "Spread", "alone", "exchange"]

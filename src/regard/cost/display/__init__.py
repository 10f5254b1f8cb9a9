"""Costs as tables in a terminal and as figures."""

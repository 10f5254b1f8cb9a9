"""Measurements on this machine: peak rates, and time and memory of attention as N grows."""

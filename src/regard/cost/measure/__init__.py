"""What this machine says: its peak rates, time and memory as N grows."""

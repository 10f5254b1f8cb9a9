"""What it costs, by formula: parameters, FLOPs, bytes, time at best, one rank or many."""

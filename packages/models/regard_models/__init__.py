"""The trained models of regard, a folder each. `regard.zoo` finds them here and checks the hash of every file before it opens one."""

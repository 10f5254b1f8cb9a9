"""Published models: the fields of their config.json and the names of their tensors, each family described once.

`regard.cost` counts the costs of every family; `Gpt` and `Bert` load the weights of those that have a loader.
"""

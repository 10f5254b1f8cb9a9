"""The architecture that costs are counted on: of presets, of config and weight files, of this library's models."""

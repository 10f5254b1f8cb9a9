"""What a model is: well-known ones by name, files and folders, this library's own."""

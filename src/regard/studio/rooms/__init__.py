"""What each room of the page asks of the server: a router a room."""

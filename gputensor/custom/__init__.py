"""Users' operators: defining, registering, deriving and checking them."""

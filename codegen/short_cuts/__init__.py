"""Text of the functions of short cuts, composed of common parts; forms.py joins them."""

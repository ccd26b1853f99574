"""Calls with arguments in any form, and what they are converted to by the operator's schema."""

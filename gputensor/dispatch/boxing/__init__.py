"""Calls with arguments in any form, and their conversion by the operator's schema."""

"""Calls with arguments in any form, converted by the operator's schema."""

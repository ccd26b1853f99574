"""Values and rules that hold no state: dtypes, devices, layouts, schemas and errors."""

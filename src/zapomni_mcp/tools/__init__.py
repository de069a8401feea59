"""One file per family of tools; a tool parses, calls the engine, formats."""

"""How memory is kept. Imports nothing else of ours."""

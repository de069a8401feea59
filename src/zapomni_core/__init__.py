"""What Zapomni does. Empty on purpose: importing a package must cost nothing."""

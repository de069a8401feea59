"""One file per page: what it is asked for, what it shows, and the changes it can make."""

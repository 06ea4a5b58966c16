"""Recovery policies, one file each."""

"""The search for a policy: scenarios, cube, optimizer, choice, validation."""

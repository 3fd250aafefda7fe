"""Lockstep's programs (bin/) and the shared libraries that they need (lib/)."""

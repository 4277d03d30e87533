"""The demonstration: the whole pipeline on real parts, for people around the world, with everything going wrong."""

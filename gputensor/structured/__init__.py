"""Code that families of operators share: kernel factories, argument checks, generators, and
plans."""

"""Code shared by families of operators: kernel factories, argument checks, generators and plans."""

"""What families of operators share: the skeletons that a row's meaning is filled into."""

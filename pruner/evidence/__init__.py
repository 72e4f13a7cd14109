"""What indexes and partition values say about the slices of one snapshot."""

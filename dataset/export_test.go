package dataset

// Permutation is what a random split deals out.
var Permutation = permutation

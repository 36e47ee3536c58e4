// Package photos makes samples of pictures, decoded and transformed as torchvision
// does it: of a folder with one sub-folder per class, or of any other
// [dataset.Files]. Masks are pictures of indexes. [Boxes] change along with the
// pictures that they go with.
//
//	train, err := photos.Open(ctx, "photos", photos.Options{Transform: imaging.RandomResizedCrop(224)})
//
// Importing it registers the format with [dataset.Open].
package photos

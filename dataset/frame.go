package dataset

// Frame is the size of a picture, upright, in pixels. It is zero until the first
// picture of a visit is read, by package photos or by a reader of your own, which fills
// it in where it is zero. See [Visit].
type Frame struct{ Width, Height int }

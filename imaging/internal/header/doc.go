// Package header reads what the file of a picture says of it before anything is
// decoded: its format, how it lies, and of a JPEG how much memory it takes. Files
// are foreign bytes: what is damaged says nothing.
package header

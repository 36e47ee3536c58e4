// Package screen has the whole of a terminal, for a view that is drawn over and over:
// the alternate screen, so that what was there comes back at the end, keys one by one,
// and the size, also when it changes.
//
//	s, err := screen.Open(ctx, os.Stdin, os.Stdout)
//	defer s.Close() // also after a panic: the terminal is as it was
//	for {
//		width, height := s.Size()
//		s.Draw(lines)
//		select {
//		case k := <-s.Keys():
//		case <-s.Resized():
//		}
//	}
//
// (tcell and bubbletea do more: cells that are compared, mouse, colours by terminal.
// A list that scrolls needs none of that: docs/dependencies.md.)
package screen

package pickle

import "fmt"

func (d *decoder) push(v any) error {
	d.stack = append(d.stack, v)
	return nil
}

// floor is how much of the stack lies below the innermost mark.
func (d *decoder) floor() int {
	if n := len(d.marks); n > 0 {
		return d.marks[n-1]
	}
	return 0
}

func (d *decoder) top() (any, error) {
	if len(d.stack) <= d.floor() {
		return nil, fmt.Errorf("%w: the stack is empty", ErrMalformed)
	}
	return d.stack[len(d.stack)-1], nil
}

// popN takes the n top values. They are valid until the next push.
func (d *decoder) popN(n int) ([]any, error) {
	if len(d.stack)-d.floor() < n {
		return nil, fmt.Errorf("%w: the stack has %d values, %d are needed", ErrMalformed, len(d.stack)-d.floor(), n)
	}
	at := len(d.stack) - n
	values := d.stack[at:]
	d.stack = d.stack[:at]
	return values, nil
}

// popMark takes the values above the innermost mark, and the mark.
func (d *decoder) popMark() ([]any, error) {
	if len(d.marks) == 0 {
		return nil, fmt.Errorf("%w: there is no mark", ErrMalformed)
	}
	values := d.stack[d.floor():]
	d.stack = d.stack[:d.floor()]
	d.marks = d.marks[:len(d.marks)-1]
	return values, nil
}

func (d *decoder) byte() (byte, error) {
	raw, err := d.take(1)
	if err != nil {
		return 0, err
	}
	return raw[0], nil
}

// uint reads an unsigned integer of so many bytes, low byte first.
func (d *decoder) uint(width int) (uint64, error) {
	raw, err := d.take(uint64(width))
	if err != nil {
		return 0, err
	}
	var u uint64
	for i, b := range raw {
		u |= uint64(b) << (8 * i)
	}
	return u, nil
}

// counted reads bytes that follow their number.
func (d *decoder) counted(width int) ([]byte, error) {
	n, err := d.uint(width)
	if err != nil {
		return nil, err
	}
	return d.take(n)
}

func (d *decoder) take(n uint64) ([]byte, error) {
	if n > uint64(len(d.data)-d.pos) {
		return nil, d.short(n)
	}
	raw := d.data[d.pos : d.pos+int(n)]
	d.pos += int(n)
	return raw, nil
}

func (d *decoder) short(n uint64) error {
	return fmt.Errorf("%w: %d bytes are needed, %d are left", ErrMalformed, n, len(d.data)-d.pos)
}

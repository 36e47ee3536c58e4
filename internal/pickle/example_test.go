package pickle_test

import (
	"bytes"
	"fmt"
	"log"

	"github.com/pinion-gpu/pinion/internal/pickle"
)

func Example() {
	var file bytes.Buffer
	err := pickle.Encode(&file, map[string]any{"device": 0, "sizes": []any{512, 1024}})
	if err != nil {
		log.Fatal(err)
	}
	v, err := pickle.Decode(file.Bytes())
	if err != nil {
		log.Fatal(err)
	}
	sizes, _ := v.(*pickle.Dict).Get("sizes")
	fmt.Println(sizes.(*pickle.List).Items)

	_, err = pickle.Decode([]byte("\x80\x02cos\nsystem\n(U\x02lstR."))
	fmt.Println(err)
	// Output:
	// [512 1024]
	// pickle: offset 2: pickle is not plain data: opcode GLOBAL
}

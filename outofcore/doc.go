// Package outofcore computes on matrices and arrays that are larger than the
// device's memory. They stay in host memory, as slices or mapped files; tiles
// or chunks of them come in, are computed on and go out, all at the same time.
//
//	runner, err := outofcore.New(engine, outofcore.Options{})
//	defer runner.Close()
//	report, err := runner.MatMul(ctx, outofcore.Product{
//		A: outofcore.Float32(a, m, k), B: outofcore.Float32(b, k, n), C: outofcore.Float32(c, m, n),
//	})
//	fmt.Print(report) // what was moved, how long it took, and the least that it could
//
//	_, err = runner.Map(ctx, outofcore.Map{Op: kernels.Linear, A: 2, X: outofcore.Floats(x), Out: outofcore.Floats(y)})
//	norm, _, err := runner.Reduce(ctx, outofcore.Reduction{Op: kernels.SumSquares, X: outofcore.Floats(y)})
//
// # Products
//
// [MakePlan] cuts the matrices into tiles and puts their products in an order,
// by how fast the link and the device are. A band of rows of A stays on the
// device while the columns of B go by, or the other way round, in tiles as deep
// as k. Or a block of C stays, and A and B go by. With little memory, a band is
// one wide panel, and thin ones go by. Each band or block begins where the one
// before it ended, so what is there is used again. Which tile leaves for another
// is decided with all of the order known.
//
// A [Plan] is a function of the [Problem], and [Problem.Floor] says what no
// plan can beat.
//
// Copies in, products and copies out run on a stream each, and wait for each
// other on the device. The host stays a few operations ahead, so a context
// that ends stops a product soon. Pinned memory is copied straight, pageable
// memory and mapped files through the engine's copiers.
//
// Products are summed in float32. A result in bfloat16 is rounded once, however
// many tiles its sum takes; with a Beta that is not 0, the product may be rounded
// before C is added, too.
//
// # Matrices in a store
//
// A [Tiled] matrix lies in a tier.Store, each tile an array of it, and
// [Runner.MatMulTiled] uses tiles where they lie: for weights that are used
// again, by this product or by other work, and stay on the device as far as
// there is room. [Runner.MatMul] is for matrices that are used once. They come
// from memory of any kind, a plan that knows every tile's way decides what
// stays, and nothing of them is left on the device.
//
//	w, err := outofcore.NewTiled(store, "w", dtype.BF16, k, n, 4096, 4096)
//	err = w.Write(ctx, outofcore.BFloat16(weights, k, n))
//	_, err = runner.MatMulTiled(ctx, store, outofcore.TiledProduct{A: x, B: w, C: y})
//
// [Runner.MapTiled] and [Runner.ReduceTiled] do to such matrices what Map and
// Reduce do to arrays in host memory. An array is a matrix of one row.
//
// # Arrays
//
// [Runner.Map] and [Runner.Reduce] are pipelines (package pipeline) of chunks,
// with kernels of package kernels or functions of your own. A reduction gives
// the same bits on every device and with any memory.
package outofcore

// Package tune finds settings by measurement: how to feed a dataset to a
// device, and how large a batch may be.
//
//	result, err := tune.Feed(ctx, dev, photos, tune.Options{StepTime: 20 * time.Millisecond})
//	fmt.Println(result.Best)        // 8 workers, batch 64, prefetch 2, pageable
//	fmt.Println(result.Why())       // what limits, with the numbers
//	fmt.Println(result.Best.Go())   // loader.Options{…}
//
// # How settings are found
//
// [Feed] runs loaders with settings of a grid, a [Space], for a fraction of a
// second each. [Search] decides which, for any [Pipeline]:
//
// Calibrate. Runs with one worker, some and many give what a sample costs in
// each stage; one more run each tells pinned from pageable memory, shallow from
// deep prefetch, small from large batches, few from many copiers where pageable
// memory is staged. The [Model] made of that predicts the rate of every setting
// as the least over the stages.
//
// Race. What the model does not find slow is run in turn, in rounds, and the
// better half goes on to the next race, where there is time for more rounds of
// fewer settings. The neighbours of the leaders join, since a model errs. The
// logarithm of a rate is taken as a value of the setting, plus a drift of the
// machine that all settings share, plus noise; so a machine that others use,
// or that gets warm, favours none.
//
// Choose. Of all that are within 3 % of the fastest the one is chosen that takes
// the least pinned memory, rings of staging included, then the fewest threads,
// workers and copiers. With a step, which stands for the device's work on a
// batch, it is the cheapest of those with which the device waits less than 1 % of
// the time. When more rounds could not change that, the search ends before its
// budget does.
//
// # Memory
//
// What a setting takes is predicted, and a setting that takes more than is free
// is not tried. Where a trial runs out of memory all the same it is a result
// too ([DoesNotFitError], in [Row.Refused]), not an error.
//
// [BatchSize] finds the largest batch whose step fits into a share of the
// device's memory: by a line through what small ones take, which is checked
// where it ends.
//
// # What is kept
//
// [Result.Keep] writes a result to the user's cache directory, and [Load] finds
// it for the same machine, device, driver, dataset and options.
package tune

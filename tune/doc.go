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
// Calibrate. Runs with one, some and many workers measure the cost of a sample in
// each stage. One more run each compares pinned with pageable memory, shallow with
// deep prefetch, small with large batches, and few with many copiers where pageable
// memory is staged. The [Model] predicts the rate of every setting as the least
// over the stages.
//
// Race. The settings that the model does not find slow run in turn, in rounds. The
// better half goes on to the next race, which has time for more rounds of fewer
// settings. The neighbours of the leaders join, since models err. The logarithm of
// a rate is taken as a value of the setting, plus a drift of the machine that all
// settings share, plus noise. So a machine that warms up, or that others use,
// favours no setting.
//
// Choose. Of all settings within 3 % of the fastest, the choice is the one with the
// least pinned memory (rings of staging included), then the fewest threads (workers
// and copiers). With a step, which stands for the device's work on a batch, it is
// the cheapest setting with which the device waits less than 1 % of the time. The
// search ends early when more rounds could not change the choice. If the trials
// cannot tell the leaders apart, the result is not settled, and is not kept.
//
// # Memory
//
// The memory of a setting is predicted, and a setting that needs more than is free
// is not tried. A trial that runs out of memory all the same is a result
// ([DoesNotFitError], in [Row.Refused]), not an error.
//
// [BatchSize] finds the largest batch whose step fits a share of the device's
// memory: by a line through what small batches take, checked where it ends.
//
// # What is kept
//
// [Result.Keep] writes a settled result to the user's cache directory, and [Load]
// finds it for the same machine, device, driver, dataset and options.
package tune

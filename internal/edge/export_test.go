package edge

// Fit is fit, OrderJSON orderJSON and ReadWanted readWanted, for the tests.
var (
	Fit        = fit
	OrderJSON  = orderJSON
	ReadWanted = readWanted
)

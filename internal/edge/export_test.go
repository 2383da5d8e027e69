package edge

// Fit is fit and OrderJSON orderJSON, for the tests.
var (
	Fit       = fit
	OrderJSON = orderJSON
)

package edge

// Fit is fit, for the tests.
var Fit = fit

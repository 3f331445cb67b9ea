"""Regression on x: of responses, of labels, of anything that a test or an estimate adjusts for x.

Made here: residuals of targets regressed on x, in sample and with each row or cluster left out of its own fit, and
logistic fits of labels. Nothing here knows what a sample, a test or a divergence is. Read `Smoother.residuals` first.

`standardised` puts inputs into comparable units, `designs` makes functions of them, `ridge` penalises these, `smoother`
chooses among designs and penalties, `jumps` finds places where targets jump, `logistic` regresses labels, and
`left_out_fits` regresses one sample and says what the fit is at the rows of both.
A new kind of functions is one more family in `designs.FAMILIES`: every regression in the library then tries it.
"""

"""Where do a harness's commands run, and what is it left with? The real harness is driven, and observed."""

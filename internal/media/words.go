package media

// The codes of a job's error that belong to media alone (reference/providers.md §5.4); all others are those of contract.md §2.
const (
	// ContentFilter: the provider refused the content, before or after it made it.
	ContentFilter = "content_filter"
	// InvalidInput: the provider cannot make what was asked for.
	InvalidInput = "invalid_input"
	// NoArtifact: the provider says that it is done and has nothing to show.
	NoArtifact = "upstream_no_artifact"
	// Gone: the provider does not know the job any more, or its time is over.
	Gone = "expired"
)

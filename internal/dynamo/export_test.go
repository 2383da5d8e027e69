package dynamo

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"spillway/internal/breaker"
	"spillway/internal/idempotency"
)

// What the fuzz targets reach for.
var (
	FormatCircuit = formatCircuit
	ParseCircuit  = parseCircuit
	FormatHolds   = formatHolds
	ParseHolds    = parseHolds
	Spent         = spent
	ReadJob       = readJob
	WriteJob      = writtenJob
)

func ReadWindow(it map[string]types.AttributeValue, now time.Time) (breaker.Told, []string) {
	return readWindow(it, now)
}

func ReadRecord(it map[string]types.AttributeValue) (*idempotency.Record, error) { return record(it) }

package storetest

import (
	"context"
	"errors"
	"maps"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"spillway/internal/dynamo"
	"spillway/internal/s3store"
)

// Fault is what becomes of one call of a service. The zero value is a call that succeeds.
type Fault struct {
	// Lost says that the call has no effect.
	Lost bool
	// Err is what the caller gets, whatever the call did; nil: what the service says.
	Err error
	// Takes is how long the answer is on its way. A caller that gives up before has its context's error, and the call has
	// had its effect unless it is Lost.
	Takes time.Duration
}

// Faults are asked before each call of a service, by the operation's name. The emulators themselves never throttle, and no
// answer of theirs is lost. The zero value lets everything through.
type Faults struct {
	mu    sync.Mutex
	plan  func(call string, n int) Fault
	calls map[string]int
}

// Set sets what happens from now on to the nth call of an operation, counted from 1 and from now; nil: nothing does.
func (f *Faults) Set(plan func(call string, n int) Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plan, f.calls = plan, nil
}

// Calls are the calls of each operation since Set.
func (f *Faults) Calls() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.calls)
}

func (f *Faults) next(call string) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls == nil {
		f.calls = map[string]int{}
	}
	f.calls[call]++
	if f.plan == nil {
		return Fault{}
	}
	return f.plan(call, f.calls[call])
}

// through makes a call with what becomes of it. What takes effect does so although the caller has given up.
func through[In, Out, Option any](ctx context.Context, f *Faults, call string, in *In, do func(context.Context, *In, ...func(*Option)) (*Out, error), options []func(*Option)) (*Out, error) {
	fault := f.next(call)
	if ctx.Err() != nil {
		return nil, &smithy.OperationError{ServiceID: "AWS", OperationName: call, Err: &smithy.CanceledError{Err: ctx.Err()}}
	}
	var out *Out
	var err error
	if !fault.Lost {
		out, err = do(context.WithoutCancel(ctx), in, options...)
	}
	if fault.Takes > 0 {
		timer := time.NewTimer(fault.Takes)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, &smithy.OperationError{ServiceID: "AWS", OperationName: call, Err: &smithy.CanceledError{Err: ctx.Err()}}
		}
	}
	if fault.Err != nil {
		return nil, &smithy.OperationError{ServiceID: "AWS", OperationName: call, Err: fault.Err}
	}
	if fault.Lost {
		return nil, errors.New("a call without effect was planned to succeed")
	}
	return out, err
}

// Errors are the ways in which a call of a service fails, by what they are called.
func Errors() map[string]error {
	message := "simulated"
	return map[string]error{
		"throughput exceeded":   &types.ProvisionedThroughputExceededException{Message: &message},
		"throttled":             &types.ThrottlingException{Message: &message},
		"internal server error": &types.InternalServerError{Message: &message},
		"deadline":              &smithy.CanceledError{Err: context.DeadlineExceeded},
		"connection reset":      &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET},
	}
}

// Table is DynamoDB with faults.
type Table struct {
	API dynamo.API
	*Faults
}

var _ dynamo.API = Table{}

// GetItem implements dynamo.API.
func (t Table) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return through(ctx, t.Faults, "GetItem", in, t.API.GetItem, o)
}

// PutItem implements dynamo.API.
func (t Table) PutItem(ctx context.Context, in *dynamodb.PutItemInput, o ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	return through(ctx, t.Faults, "PutItem", in, t.API.PutItem, o)
}

// UpdateItem implements dynamo.API.
func (t Table) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return through(ctx, t.Faults, "UpdateItem", in, t.API.UpdateItem, o)
}

// DeleteItem implements dynamo.API.
func (t Table) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, o ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error) {
	return through(ctx, t.Faults, "DeleteItem", in, t.API.DeleteItem, o)
}

// Bucket is S3 with faults.
type Bucket struct {
	API s3store.WorksAPI
	*Faults
}

var _ s3store.WorksAPI = Bucket{}

// PutObject implements s3store.API.
func (b Bucket) PutObject(ctx context.Context, in *s3.PutObjectInput, o ...func(*s3.Options)) (*s3.PutObjectOutput, error) {
	return through(ctx, b.Faults, "PutObject", in, b.API.PutObject, o)
}

// GetObject implements s3store.API.
func (b Bucket) GetObject(ctx context.Context, in *s3.GetObjectInput, o ...func(*s3.Options)) (*s3.GetObjectOutput, error) {
	return through(ctx, b.Faults, "GetObject", in, b.API.GetObject, o)
}

// CreateMultipartUpload implements s3store.WorksAPI.
func (b Bucket) CreateMultipartUpload(ctx context.Context, in *s3.CreateMultipartUploadInput, o ...func(*s3.Options)) (*s3.CreateMultipartUploadOutput, error) {
	return through(ctx, b.Faults, "CreateMultipartUpload", in, b.API.CreateMultipartUpload, o)
}

// UploadPart implements s3store.WorksAPI.
func (b Bucket) UploadPart(ctx context.Context, in *s3.UploadPartInput, o ...func(*s3.Options)) (*s3.UploadPartOutput, error) {
	return through(ctx, b.Faults, "UploadPart", in, b.API.UploadPart, o)
}

// CompleteMultipartUpload implements s3store.WorksAPI.
func (b Bucket) CompleteMultipartUpload(ctx context.Context, in *s3.CompleteMultipartUploadInput, o ...func(*s3.Options)) (*s3.CompleteMultipartUploadOutput, error) {
	return through(ctx, b.Faults, "CompleteMultipartUpload", in, b.API.CompleteMultipartUpload, o)
}

// AbortMultipartUpload implements s3store.WorksAPI.
func (b Bucket) AbortMultipartUpload(ctx context.Context, in *s3.AbortMultipartUploadInput, o ...func(*s3.Options)) (*s3.AbortMultipartUploadOutput, error) {
	return through(ctx, b.Faults, "AbortMultipartUpload", in, b.API.AbortMultipartUpload, o)
}

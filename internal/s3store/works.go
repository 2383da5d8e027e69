package s3store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

const (
	// partSize is how much of a work is sent in one call. S3 asks for 5 MiB at least, but of the last one, and takes 10,000 parts: 78 GiB
	// (https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html, 2026-11-30).
	partSize = 8 << 20
	// abortTime bounds the abort of an upload that failed, often because its caller's time was over.
	abortTime = 2 * time.Second
	// MaxLink is the longest that a link is good. S3 takes 7 days, but a link that was made with a role's temporary credentials
	// ends with them, whatever it says (https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-presigned-url.html, 2026-11-30),
	// and the environment of a function does not say when that is: links are made for each request and not kept.
	MaxLink = time.Hour
)

// WorksAPI is the part of S3 that is used for works. UploadPart must not read its body after it has returned, which the SDK's
// client promises also of a call that failed: the buffer is used again.
type WorksAPI interface {
	API
	CreateMultipartUpload(context.Context, *s3.CreateMultipartUploadInput, ...func(*s3.Options)) (*s3.CreateMultipartUploadOutput, error)
	UploadPart(context.Context, *s3.UploadPartInput, ...func(*s3.Options)) (*s3.UploadPartOutput, error)
	CompleteMultipartUpload(context.Context, *s3.CompleteMultipartUploadInput, ...func(*s3.Options)) (*s3.CompleteMultipartUploadOutput, error)
	AbortMultipartUpload(context.Context, *s3.AbortMultipartUploadInput, ...func(*s3.Options)) (*s3.AbortMultipartUploadOutput, error)
}

// Presigner signs addresses. It makes no call.
type Presigner interface {
	PresignGetObject(context.Context, *s3.GetObjectInput, ...func(*s3.PresignOptions)) (*v4.PresignedHTTPRequest, error)
}

// Works keeps what media jobs made, of any size, in a bucket. Its fields must be set before use; NewWorks sets them. It is
// safe for concurrent use. It needs s3:PutObject, s3:AbortMultipartUpload and s3:GetObject; without s3:ListBucket S3 does not
// say that an object is not there, but that access to it is denied.
//
// A process that stops leaves its upload behind, and so does an abort that fails: the bucket's lifecycle must abort what is incomplete.
type Works struct {
	API    WorksAPI
	Links  Presigner
	Bucket string
}

// NewWorks keeps works by a client that New made.
func NewWorks(client *s3.Client, bucket string) *Works {
	return &Works{API: client, Links: s3.NewPresignClient(client), Bucket: bucket}
}

// Put reads a body once, to its end, and makes it readable as an object before it returns. size is in bytes, negative where it
// is not known. A body whose Read fails, or that is shorter or longer than size, is an error and shows no object; after any other
// error the object may be there, whole. An empty body is an empty object.
//
// A body of up to 8 MiB is one call, a longer one an upload in parts, one after another. At no time more than one part is in memory,
// and each is sent from there: over TLS the SDK leaves it unhashed, as S3 allows (UNSIGNED-PAYLOAD), and over plain HTTP, which
// only emulators speak, it reads it twice, which it could not do with the body itself.
func (w *Works) Put(ctx context.Context, name, contentType string, body io.Reader, size int64) error {
	buffer := buffers.Get().(*[partSize + 1]byte) //nolint:forcetypeassert // nothing else is put there
	defer buffers.Put(buffer)
	c := &cutter{body: body, size: size, buffer: buffer}
	first, last, err := c.next()
	if err != nil {
		return fmt.Errorf("reading a work: %w", err)
	}
	if !last {
		return w.putParts(ctx, &s3.CreateMultipartUploadInput{Bucket: &w.Bucket, Key: &name, ContentType: &contentType}, first, c)
	}
	_, err = w.API.PutObject(ctx, &s3.PutObjectInput{Bucket: &w.Bucket, Key: &name, ContentType: &contentType, Body: bytes.NewReader(first),
		ContentLength: aws.Int64(int64(len(first)))})
	if err != nil {
		return fmt.Errorf("putting a work: %w", err)
	}
	return nil
}

// putParts puts what is longer than one part. It leaves no upload behind, also when the body panics.
func (w *Works) putParts(ctx context.Context, in *s3.CreateMultipartUploadInput, first []byte, c *cutter) (err error) {
	made, err := w.API.CreateMultipartUpload(ctx, in)
	if err != nil {
		return fmt.Errorf("beginning an upload: %w", err)
	}
	complete := false
	defer func() {
		if !complete {
			err = errors.Join(err, w.abort(ctx, in.Key, made.UploadId))
		}
	}()
	var sent []types.CompletedPart
	for part, last := first, false; ; {
		number := aws.Int32(int32(len(sent) + 1)) //nolint:gosec // S3 refuses the 10,001st
		out, err := w.API.UploadPart(ctx, &s3.UploadPartInput{Bucket: &w.Bucket, Key: in.Key, UploadId: made.UploadId, PartNumber: number,
			Body: bytes.NewReader(part), ContentLength: aws.Int64(int64(len(part)))})
		if err != nil {
			return fmt.Errorf("uploading part %d: %w", *number, err)
		}
		sent = append(sent, types.CompletedPart{ETag: out.ETag, PartNumber: number})
		if last {
			break
		}
		if part, last, err = c.next(); err != nil {
			return fmt.Errorf("reading a work: %w", err)
		}
	}
	if _, err := w.API.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{Bucket: &w.Bucket, Key: in.Key, UploadId: made.UploadId,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: sent}}); err != nil {
		return fmt.Errorf("completing an upload: %w", err)
	}
	complete = true
	return nil
}

// abort ends an upload within a short time of its own: the caller's may be over.
func (w *Works) abort(ctx context.Context, name, upload *string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTime)
	defer cancel()
	var none *types.NoSuchUpload
	if _, err := w.API.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &w.Bucket, Key: name, UploadId: upload}); err != nil && !errors.As(err, &none) {
		return fmt.Errorf("aborting an upload: %w", err)
	}
	return nil
}

// buffers spares the garbage of copies that run one after another or beside each other.
var buffers = sync.Pool{New: func() any { return new([partSize + 1]byte) }}

// cutter cuts a body into parts.
type cutter struct {
	body io.Reader
	size int64 // negative: not known
	// buffer has room for one byte more than a part: it tells whether a part is the last.
	buffer *[partSize + 1]byte
	over   int // bytes of the next part that have been read: 0 or 1
	ended  bool
	read   int64 // bytes
}

// next returns the next part, which is good until the one after it is asked for, and whether it is the last. A last part is
// returned only of a body that has ended well.
func (c *cutter) next() (part []byte, last bool, err error) {
	c.buffer[0] = c.buffer[partSize]
	n := c.over
	for n < len(c.buffer) && !c.ended {
		m, err := c.body.Read(c.buffer[n:])
		n += m
		c.read += int64(m)
		switch {
		case err == io.EOF: // an error that wraps it is another one; io.ReadFull cannot tell the end from a body that was cut short
			c.ended = true
		case err != nil:
			return nil, false, err //nolint:wrapcheck // the caller says what was done
		}
	}
	if c.size >= 0 && (c.read > c.size || c.ended && c.read < c.size) {
		return nil, false, fmt.Errorf("it has not the %d bytes that it was said to have", c.size)
	}
	c.over = max(0, n-partSize)
	return c.buffer[:n-c.over], c.ended && c.over == 0, nil
}

// Open returns a work as a stream, which the caller must close and which fails when it is cut short, its size in bytes, and the
// type it was put with. Where no such object is the error wraps fs.ErrNotExist.
func (w *Works) Open(ctx context.Context, name string) (body io.ReadCloser, size int64, contentType string, err error) {
	out, err := w.API.GetObject(ctx, &s3.GetObjectInput{Bucket: &w.Bucket, Key: &name})
	var none *types.NoSuchKey
	switch {
	case errors.As(err, &none):
		return nil, 0, "", fmt.Errorf("opening a work: %w", fs.ErrNotExist)
	case err != nil:
		return nil, 0, "", fmt.Errorf("opening a work: %w", err)
	case out.ContentLength == nil:
		_ = out.Body.Close()
		return nil, 0, "", errors.New("opening a work: its size is not told")
	}
	return out.Body, *out.ContentLength, aws.ToString(out.ContentType), nil
}

// Link returns an address at which anybody reads the object by a GET, or parts of it by ranges, for so long: 1 s to MaxLink, in whole
// seconds. It is answered with the content type and is saved under the file name; either may be empty: the type it was put with, and shown
// where it is opened. No call is made: whether the object is there the reader learns. The address is signed and must not be logged.
func (w *Works) Link(ctx context.Context, name, contentType, filename string, ttl time.Duration) (string, error) {
	if ttl < time.Second || ttl > MaxLink {
		return "", fmt.Errorf("making a link: %v is not between 1 s and %v", ttl, MaxLink)
	}
	in := &s3.GetObjectInput{Bucket: &w.Bucket, Key: &name}
	if contentType != "" {
		in.ResponseContentType = &contentType
	}
	if filename != "" {
		in.ResponseContentDisposition = aws.String(mime.FormatMediaType("attachment", map[string]string{"filename": filename}))
	}
	signed, err := w.Links.PresignGetObject(ctx, in, s3.WithPresignExpires(ttl))
	if err != nil {
		return "", fmt.Errorf("making a link: %w", err)
	}
	return signed.URL, nil
}

package idempotency

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"mime"
	"mime/multipart"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Fingerprint tells two requests apart: the hexadecimal SHA-256 of method, path and body.
type Fingerprint string

// maxParts bounds the fields of one multipart body.
const maxParts = 64

// Of is the fingerprint of a request. A JSON body counts by its meaning: the order of members and white space are not
// part of it, numbers are compared as written, strings by what they say. Of a multipart body the fields count in their
// order, by name, file name, type and content; the boundary does not. Headers are not part, so that a client may ask for
// other conduct (X-LLM-*, Prefer) when it repeats a request. A body that is neither is compared byte by byte.
//
// The error says what is wrong with a body that cannot be read.
func Of(method, path, contentType string, body []byte) (Fingerprint, error) {
	h := sha256.New()
	field(h, method)
	field(h, path)
	media, params, err := mime.ParseMediaType(contentType)
	switch {
	case err == nil && media == "multipart/form-data":
		if err := multipartInto(h, params["boundary"], body); err != nil {
			return "", fmt.Errorf("reading the multipart body: %w", err)
		}
	case err == nil && media != "application/json" && !strings.HasSuffix(media, "+json") && contentType != "":
		field(h, media)
		field(h, string(body))
	default:
		v := jsontext.Value(bytes.Clone(body))
		if err := v.Format(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false), jsontext.PreserveRawStrings(false),
			jsontext.ReorderRawObjects(true), jsontext.SpaceAfterColon(false), jsontext.SpaceAfterComma(false), jsontext.Multiline(false)); err != nil {
			return "", fmt.Errorf("reading the JSON body: %w", err)
		}
		field(h, string(v))
	}
	return Fingerprint(hex.EncodeToString(h.Sum(nil))), nil
}

// field adds a text with its length, so that no two lists of texts look alike.
func field(h hash.Hash, s string) {
	_, _ = io.WriteString(h, strconv.Itoa(len(s))+":")
	_, _ = io.WriteString(h, s)
}

func multipartInto(h hash.Hash, boundary string, body []byte) error {
	r := multipart.NewReader(bytes.NewReader(body), boundary)
	for n := 0; ; n++ {
		part, err := r.NextRawPart()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if n == maxParts {
			return fmt.Errorf("more than %d fields", maxParts)
		}
		content := sha256.New()
		if _, err := io.Copy(content, part); err != nil {
			return err
		}
		for _, s := range []string{part.FormName(), part.FileName(), part.Header.Get("Content-Type"), hex.EncodeToString(content.Sum(nil))} {
			field(h, s)
		}
	}
}

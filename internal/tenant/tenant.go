// Package tenant knows who calls: keys and the organizations that scope everything a key does. Keys are known by their
// SHA-256 only.
package tenant

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"spillway/internal/catalog"
)

// Caller is an authenticated client.
type Caller struct {
	// Key is the key's alias, which records may show.
	Key          string
	Organization *catalog.Organization
	permissions  []catalog.Permission
}

// May reports whether the caller's key has a permission.
func (c Caller) May(p catalog.Permission) bool { return slices.Contains(c.permissions, p) }

// Table is the static key table of a configuration. It is read-only and safe for concurrent use.
type Table struct {
	keys          map[string]catalog.Key
	organizations map[string]*catalog.Organization
}

// NewTable makes the table of a loaded configuration.
func NewTable(c *catalog.Catalog) *Table {
	t := &Table{keys: make(map[string]catalog.Key, len(c.Keys)), organizations: c.Organizations}
	for _, k := range c.Keys {
		t.keys[k.SHA256] = k
	}
	return t
}

// Authenticate finds the caller of a presented key. ok is false for an unknown, disabled or expired key; which of them
// it was is nobody's business.
func (t *Table) Authenticate(presented string, now time.Time) (Caller, bool) {
	sum := sha256.Sum256([]byte(presented))
	k, ok := t.keys[hex.EncodeToString(sum[:])]
	if !ok || k.Disabled || (!k.Expires.IsZero() && !now.Before(k.Expires)) {
		return Caller{}, false
	}
	return Caller{Key: k.Alias, Organization: t.organizations[k.Organization], permissions: k.Permissions}, true
}

package tenant_test

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"spillway/internal/catalog"
	"spillway/internal/tenant"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func digest(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

func TestAuthenticate(t *testing.T) {
	acme, dev := &catalog.Organization{Name: "acme"}, &catalog.Organization{Name: "dev"}
	table := tenant.NewTable(&catalog.Catalog{
		Organizations: map[string]*catalog.Organization{"acme": acme, "dev": dev},
		Keys: []catalog.Key{
			{SHA256: digest("sk-live"), Alias: "live", Organization: "acme"},
			{SHA256: digest("sk-dev"), Alias: "laptop", Organization: "dev"},
			{SHA256: digest("sk-off"), Alias: "off", Organization: "acme", Disabled: true},
			{SHA256: digest("sk-until-noon"), Alias: "old", Organization: "acme", Expires: noon},
		},
	})
	for name, c := range map[string]struct {
		key  string
		now  time.Time
		want tenant.Caller
		ok   bool
	}{
		"a known key is its alias and organization": {"sk-live", noon, tenant.Caller{Key: "live", Organization: acme}, true},
		"each key has its own organization":         {"sk-dev", noon, tenant.Caller{Key: "laptop", Organization: dev}, true},
		"an unknown key is nobody":                  {"sk-guess", noon, tenant.Caller{}, false},
		"no key is nobody":                          {"", noon, tenant.Caller{}, false},
		"the digest is not the key":                 {digest("sk-live"), noon, tenant.Caller{}, false},
		"a key is exact":                            {"sk-live ", noon, tenant.Caller{}, false},
		"a disabled key is nobody":                  {"sk-off", noon, tenant.Caller{}, false},
		"a key works until it ends":                 {"sk-until-noon", noon.Add(-time.Nanosecond), tenant.Caller{Key: "old", Organization: acme}, true},
		"a key does not work when it ends":          {"sk-until-noon", noon, tenant.Caller{}, false},
		"a key that has ended is nobody":            {"sk-until-noon", noon.Add(time.Hour), tenant.Caller{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := table.Authenticate(c.key, c.now)
			assert.Equal(t, c.ok, ok)
			assert.Equal(t, c.want, got)
		})
	}
}

func TestAKeyMayWhatItsPermissionsSay(t *testing.T) {
	table := tenant.NewTable(&catalog.Catalog{
		Organizations: map[string]*catalog.Organization{"acme": {Name: "acme"}},
		Keys: []catalog.Key{
			{SHA256: digest("sk-live"), Organization: "acme"},
			{SHA256: digest("sk-ops"), Organization: "acme", Permissions: []catalog.Permission{catalog.ReadTraces}},
		},
	})
	for key, may := range map[string]bool{"sk-live": false, "sk-ops": true} {
		caller, ok := table.Authenticate(key, noon)
		assert.True(t, ok)
		assert.Equal(t, may, caller.May(catalog.ReadTraces), key)
	}
	assert.False(t, tenant.Caller{}.May(catalog.ReadTraces))
}

func TestEmptyTableKnowsNobody(t *testing.T) {
	_, ok := tenant.NewTable(&catalog.Catalog{}).Authenticate("", noon)
	assert.False(t, ok)
}

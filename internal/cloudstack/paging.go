package cloudstack

import "strconv"

// page names a part of a listing. The zero value asks for whatever CloudStack gives without being asked for a page.
type page struct{ number, size int }

// set adds the page to the parameters of a listing.
func (p page) set(params map[string]string) {
	if p.size == 0 {
		return
	}
	params["page"] = strconv.Itoa(p.number)
	params["pagesize"] = strconv.Itoa(p.size)
}

// apply is set for the SDK's parameter types.
func (p page) apply(params interface {
	SetPage(page int)
	SetPagesize(size int)
}) {
	if p.size == 0 {
		return
	}
	params.SetPage(p.number)
	params.SetPagesize(p.size)
}

// all fetches a listing to its end. fetch returns one page and the total number of items.
//
// The first page is asked for without a size, so its length is the biggest page that this CloudStack gives
// (default.page.size, which an administrator may have lowered: to ask for more is an error).
func all[T any](fetch func(page) (items []T, total int, err error)) ([]T, error) {
	list, total, err := fetch(page{})
	size := len(list)
	for number := 2; err == nil && size > 0 && len(list) < total; number++ {
		var items []T
		items, total, err = fetch(page{number: number, size: size})
		if len(items) == 0 {
			break
		}
		list = append(list, items...)
	}
	if err != nil {
		return nil, err
	}
	return list, nil
}
